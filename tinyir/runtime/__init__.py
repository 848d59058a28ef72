"""Running an emitted CUDA text: arrays in and out, compilers, devices, checks and timings."""
