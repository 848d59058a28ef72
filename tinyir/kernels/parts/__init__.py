"""What several families write alike: the values of a region at a point, folds, scatters."""
