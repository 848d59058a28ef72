"""A map that reads along one axis and writes along another: square tiles through shared memory."""
