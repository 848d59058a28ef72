/* What every program needs: faults, sizes, the workspace, tensor maps, launches, and the file of kernels and weights. */

static _Thread_local char fault_text[512];

static int fail(int code, const char *at, const char *reason) {
  snprintf(fault_text, sizeof fault_text, "%s: %s", at, reason);
  return code;
}

static int driver_fault(CUresult result, const char *at) {
  const char *word = NULL;
  if (cuGetErrorName(result, &word) != CUDA_SUCCESS || word == NULL) word = "a fault that the driver does not name";
  return fail((int)result, at, word);
}

#define MUST(call, at) \
  do { \
    const CUresult result_ = (call); \
    if (result_ != CUDA_SUCCESS) return driver_fault(result_, at); \
  } while (0)

/* Sizes: exact up to 2^63 - 1, where products of extents stop. */

static inline int64_t floor_div(int64_t number, int64_t divisor) {
  if (divisor <= 0) return 0;
  return number / divisor - (number % divisor < 0);
}

static inline int64_t times(int64_t a, int64_t b) {
  if (a <= 0 || b <= 0) return 0;
  return a > INT64_MAX / b ? INT64_MAX : a * b;
}

/* The workspace: buffers that never live at the same time may share a place. */

struct item {
  int64_t bytes;
  int64_t place;
  int first, last; /* the launches that touch it, both included; last < first: none does */
  int number;
};

static inline int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

static int by_size(const void *a, const void *b) {
  const struct item *left = a, *right = b;
  if (left->bytes != right->bytes) return left->bytes > right->bytes ? -1 : 1;
  if (left->first != right->first) return left->first < right->first ? -1 : 1;
  return left->number - right->number;
}

/* Places for the items, which end in another order; the bytes of all. The largest are placed first, each in the lowest
   gap that holds it. */
static int64_t pack(struct item *items, int count) {
  int64_t whole = 0;
  qsort(items, (size_t)count, sizeof *items, by_size);
  for (int next = 0; next < count; ++next) { /* items[0..next) are placed, lowest first */
    const struct item item = items[next];
    int64_t at = 0;
    int slot = 0;
    if (item.last < item.first) continue;
    for (int n = 0; n < next; ++n) {
      const struct item *other = &items[n];
      if (other->last < other->first || item.first > other->last || other->first > item.last) continue;
      if (at + item.bytes <= other->place) break;
      if (at < other->place + rounded(other->bytes)) at = other->place + rounded(other->bytes);
    }
    if (at + rounded(item.bytes) > whole) whole = at + rounded(item.bytes);
    while (slot < next && items[slot].place <= at) ++slot;
    memmove(&items[slot + 1], &items[slot], (size_t)(next - slot) * sizeof *items);
    items[slot] = item;
    items[slot].place = at;
  }
  return whole;
}

/* Programs. */

struct PROGRAM {
  CUdevice device;
  CUcontext context;
  int is_held;       /* the context is */
  int allows_early;  /* the driver captures launches that may start early */
  CUmodule modules[IMAGES + 1];
  CUfunction functions[KERNELS + 1];
  CUdeviceptr pool;  /* weights, constants, and what is computed of them once */
};

struct call {
  const PROGRAM *program;
  CUstream stream;
  int has_begun;  /* its first launch waits for whatever the stream did before */
};

static inline int launch(struct call *call, int kernel, const char *at, int64_t x, int64_t y, int64_t z, unsigned block_x,
                  unsigned block_y, unsigned block_z, unsigned shared, int is_early, void **arguments) {
  CUlaunchAttribute early;
  CUlaunchConfig config;
  memset(&early, 0, sizeof early);
  memset(&config, 0, sizeof config);
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  config.gridDimX = (unsigned)x;
  config.gridDimY = (unsigned)y;
  config.gridDimZ = (unsigned)z;
  config.blockDimX = block_x;
  config.blockDimY = block_y;
  config.blockDimZ = block_z;
  config.sharedMemBytes = shared;
  config.hStream = call->stream;
  config.attrs = &early;
  config.numAttrs = is_early && call->has_begun && call->program->allows_early;
  call->has_begun = 1;
  MUST(cuLaunchKernelEx(&config, call->program->functions[kernel], arguments, NULL), at);
  return 0;
}

/* Tensor maps: extents, boxes and corners of windows innermost first. */

#define MOST_AXES 5

static inline void strides_of(cuuint64_t *strides, const cuuint64_t *extents, unsigned axes, unsigned element) {
  strides[0] = axes > 1 ? extents[0] * element : 64; /* of one axis none is read */
  for (unsigned n = 1; n + 1 < axes; ++n) strides[n] = strides[n - 1] * extents[n];
}

static inline int tiled_map(CUtensorMap *map, const char *at, CUtensorMapDataType type, unsigned element, CUdeviceptr address,
                     unsigned axes, const cuuint64_t *extents, const cuuint32_t *box, CUtensorMapSwizzle swizzle) {
  cuuint64_t strides[MOST_AXES];
  const cuuint32_t steps[MOST_AXES] = {1, 1, 1, 1, 1};
  strides_of(strides, extents, axes, element);
  MUST(cuTensorMapEncodeTiled(map, type, axes, (void *)(uintptr_t)address, extents, strides, box, steps,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
       at);
  return 0;
}

static inline int window_map(CUtensorMap *map, const char *at, CUtensorMapDataType type, unsigned element, CUdeviceptr address,
                      unsigned axes, const cuuint64_t *extents, const int *low, const int *high, unsigned channels,
                      unsigned windows, const cuuint32_t *steps, CUtensorMapSwizzle swizzle) {
  cuuint64_t strides[MOST_AXES];
  strides_of(strides, extents, axes, element);
  MUST(cuTensorMapEncodeIm2col(map, type, axes, (void *)(uintptr_t)address, extents, strides, low, high, channels,
                               windows, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                               CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
       at);
  return 0;
}

/* Fill a tensor with one value of 1, 2, 4 or 8 bytes. */
static inline int fill(CUdeviceptr address, uint64_t bits, unsigned element, int64_t count, const char *at, CUstream stream) {
  if (count == 0) return 0;
  if (element == 1) MUST(cuMemsetD8Async(address, (unsigned char)bits, (size_t)count, stream), at);
  if (element == 2) MUST(cuMemsetD16Async(address, (unsigned short)bits, (size_t)count, stream), at);
  if (element == 4) MUST(cuMemsetD32Async(address, (unsigned)bits, (size_t)count, stream), at);
  if (element == 8) { /* its halves, each as a column */
    MUST(cuMemsetD2D32Async(address, 8, (unsigned)bits, 1, (size_t)count, stream), at);
    MUST(cuMemsetD2D32Async(address + 4, 8, (unsigned)(bits >> 32), 1, (size_t)count, stream), at);
  }
  return 0;
}

static inline int check_address(const void *address, unsigned alignment, const char *at) {
  if (address == NULL) return fail(BAD_ADDRESS, at, "its address is null");
  if ((uintptr_t)address % alignment != 0) return fail(BAD_ADDRESS, at, "its address is no multiple of its alignment");
  return 0;
}

/* The file: a head of 64 bytes, the images of each GPU, then the pool's bytes. */

struct kernel {
  const char *name;
  int image;
  int shared; /* dynamic shared memory, in bytes, the most of its launches */
};

struct target { /* a kind of GPU that there are images for */
  int major, minor;
  int is_exact; /* they run on no other minor version */
  int64_t place;
  int64_t sizes[IMAGES + 1];
};

static int read_bytes(FILE *file, void *room, size_t bytes, const char *path) {
  if (fread(room, 1, bytes, file) == bytes) return 0;
  return fail(BAD_DATA, path, "it is shorter than it was written");
}

static int target_of(int major, int minor) {
  int best = -1;
  for (int n = 0; n < TARGETS; ++n) {
    const struct target *target = &targets[n];
    if (target->major != major || target->minor > minor || (target->is_exact && target->minor != minor)) continue;
    if (best < 0 || target->is_exact || (!targets[best].is_exact && target->minor > targets[best].minor)) best = n;
  }
  return best;
}

static int load_images(PROGRAM *program, FILE *file, const struct target *target, const char *path) {
  if (fseek(file, (long)target->place, SEEK_SET) != 0) return fail(BAD_DATA, path, "it is shorter than it was written");
  for (int n = 0; n < IMAGES; ++n) {
    CUresult result;
    int fault;
    char *image = malloc((size_t)target->sizes[n]);
    if (image == NULL) return fail(NO_MEMORY, path, "no memory of the host for a kernel");
    fault = read_bytes(file, image, (size_t)target->sizes[n], path);
    result = fault ? CUDA_SUCCESS : cuModuleLoadData(&program->modules[n], image);
    free(image);
    if (fault) return fault;
    if (result != CUDA_SUCCESS) return driver_fault(result, path);
  }
  for (int n = 0; n < KERNELS; ++n) {
    const struct kernel *kernel = &kernels[n];
    MUST(cuModuleGetFunction(&program->functions[n], program->modules[kernel->image], kernel->name), kernel->name);
    if (kernel->shared > 48 << 10)
      MUST(cuFuncSetAttribute(program->functions[n], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel->shared),
           kernel->name);
  }
  return 0;
}

static int load_pool(PROGRAM *program, FILE *file, const char *path) {
  const size_t most = (size_t)4 << 20;
  char *room;
  int fault = 0;
  if (POOL_BYTES == 0) return 0;
  MUST(cuMemAlloc(&program->pool, (size_t)POOL_BYTES), "the weights");
  if (fseek(file, (long)POOL_PLACE, SEEK_SET) != 0) return fail(BAD_DATA, path, "it is shorter than it was written");
  room = malloc(most);
  if (room == NULL) return fail(NO_MEMORY, path, "no memory of the host to read the weights");
  for (int64_t at = 0; at < POOL_FILLED && !fault;) {
    const size_t bytes = POOL_FILLED - at < (int64_t)most ? (size_t)(POOL_FILLED - at) : most;
    fault = read_bytes(file, room, bytes, path);
    if (!fault) {
      const CUresult result = cuMemcpyHtoD(program->pool + (CUdeviceptr)at, room, bytes);
      fault = result == CUDA_SUCCESS ? 0 : driver_fault(result, "the weights");
    }
    at += (int64_t)bytes;
  }
  free(room);
  return fault;
}

static int load(PROGRAM *program, FILE *file, const char *path) {
  char head[64];
  int major = 0, minor = 0, version = 0, best, fault;
  fault = read_bytes(file, head, sizeof head, path);
  if (fault) return fault;
  if (memcmp(head, IDENTITY, sizeof IDENTITY - 1) != 0)
    return fail(BAD_DATA, path, "it was not written with this C file");
  MUST(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, program->device), "the GPU");
  MUST(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, program->device), "the GPU");
  best = target_of(major, minor);
  if (best < 0) return fail(WRONG_GPU, "the GPU", "the kernels were compiled for another: " TARGET_NAMES);
  MUST(cuDriverGetVersion(&version), "the driver");
  program->allows_early = version >= 12030;
  fault = load_images(program, file, &targets[best], path);
  return fault ? fault : load_pool(program, file, path);
}

static int compute_once(const PROGRAM *program);

static int start(PROGRAM *program, const char *path, int device) {
  FILE *file;
  int fault;
  MUST(cuInit(0), "the driver");
  MUST(cuDeviceGet(&program->device, device), "the GPU");
  file = fopen(path, "rb");
  if (file == NULL) return fail(NO_DATA, path, "it cannot be opened");
  {
    const CUresult result = cuDevicePrimaryCtxRetain(&program->context, program->device);
    program->is_held = result == CUDA_SUCCESS;
    fault = program->is_held ? 0 : driver_fault(result, "the GPU");
  }
  if (!fault) {
    const CUresult result = cuCtxPushCurrent(program->context);
    fault = result == CUDA_SUCCESS ? 0 : driver_fault(result, "the GPU");
    if (!fault) {
      CUcontext popped;
      fault = load(program, file, path);
      if (!fault) fault = compute_once(program);
      cuCtxPopCurrent(&popped);
    }
  }
  fclose(file);
  return fault;
}

static void finish(PROGRAM *program) {
  CUcontext popped;
  if (program->is_held) {
    if (cuCtxPushCurrent(program->context) == CUDA_SUCCESS) {
      if (program->pool != 0) cuMemFree(program->pool);
      for (int n = 0; n < IMAGES; ++n)
        if (program->modules[n] != NULL) cuModuleUnload(program->modules[n]);
      cuCtxPopCurrent(&popped);
    }
    cuDevicePrimaryCtxRelease(program->device);
  }
  free(program);
}
