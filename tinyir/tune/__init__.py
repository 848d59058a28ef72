"""Plans found by measuring: each region as a program of its own, its candidates compiled side by side, checked, timed,
and the winner kept."""
