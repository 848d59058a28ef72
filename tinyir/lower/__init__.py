"""What each filter does: one room a lowering, none knows another."""
