"""The same work as other regions: a long sum in parts and a kernel that adds them, a prologue as a matrix of its own, a
scan in steps. The planner prices them beside the region as it is."""
