"""The emitted CUDA text on the CPU: the host C++ compiler builds the very same text against `shim/`, and its threads
run as fibers."""
