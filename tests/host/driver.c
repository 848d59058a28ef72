/* A driver that launches nothing: memory is the host's, every launch is a line of JSON on stdout, and what is not given
   back at the end is counted. An image is text: for each of its kernels a line `name parameters`, where the parameters
   are p (a pointer), m (a tensor map) and i (an int). FAULT=cuMemAlloc:2 makes the second such call fail. */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUctx_st {
  int held, pushed;
};
struct CUfunc_st {
  char name[256], parameters[4096];
  int shared;
  struct CUfunc_st *next;
};
struct CUmod_st {
  struct CUfunc_st *functions;
};

static struct CUctx_st context;
static int living; /* modules and pieces of memory */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int fails(const char *function) {
  static int calls;
  const char *asked = getenv("FAULT");
  const size_t length = strlen(function);
  int found;
  if (asked == NULL || strncmp(asked, function, length) != 0 || asked[length] != ':') return 0;
  pthread_mutex_lock(&mutex);
  found = ++calls == atoi(asked + length + 1);
  pthread_mutex_unlock(&mutex);
  return found;
}

#define ENTER if (fails(__func__)) return CUDA_ERROR_INVALID_VALUE

static int number_of(const char *variable, int otherwise) {
  const char *stated = getenv(variable);
  return stated == NULL ? otherwise : atoi(stated);
}

CUresult cuInit(unsigned flags) {
  ENTER;
  return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  ENTER;
  *version = number_of("DRIVER", 13000);
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == CUDA_ERROR_NOT_FOUND   ? "CUDA_ERROR_NOT_FOUND"
                                             : "CUDA_ERROR_INVALID_VALUE";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER;
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  ENTER;
  (void)device;
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? number_of("MAJOR", 9) : number_of("MINOR", 0);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *made, CUdevice device) {
  ENTER;
  (void)device;
  ++context.held;
  *made = &context;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  --context.held;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext pushed) {
  ENTER;
  pthread_mutex_lock(&mutex);
  ++pushed->pushed;
  pthread_mutex_unlock(&mutex);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *popped) {
  pthread_mutex_lock(&mutex);
  --context.pushed;
  pthread_mutex_unlock(&mutex);
  *popped = &context;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  const char *text = image;
  int length;
  ENTER;
  *module = calloc(1, sizeof **module);
  ++living;
  for (;;) {
    struct CUfunc_st *made = calloc(1, sizeof *made);
    if (sscanf(text, "%255s %4095s%n", made->name, made->parameters, &length) != 2) {
      free(made);
      return CUDA_SUCCESS;
    }
    text += length;
    made->next = (*module)->functions;
    (*module)->functions = made;
  }
}

CUresult cuModuleUnload(CUmodule module) {
  while (module->functions != NULL) {
    struct CUfunc_st *next = module->functions->next;
    free(module->functions);
    module->functions = next;
  }
  free(module);
  --living;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ENTER;
  for (struct CUfunc_st *found = module->functions; found != NULL; found = found->next)
    if (strcmp(found->name, name) == 0) {
      *function = found;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  ENTER;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  function->shared = value;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  ENTER;
  *address = (CUdeviceptr)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  pthread_mutex_lock(&mutex);
  ++living;
  pthread_mutex_unlock(&mutex);
  printf("{\"alloc\": %llu, \"bytes\": %zu}\n", *address, bytes);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  free((void *)(uintptr_t)address);
  pthread_mutex_lock(&mutex);
  --living;
  pthread_mutex_unlock(&mutex);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  ENTER;
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER;
  (void)stream;
  memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr to, const void *value, size_t bytes, size_t step, size_t count) {
  for (size_t n = 0; n < count; ++n) memcpy((char *)(uintptr_t)to + n * step, value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  ENTER;
  (void)stream;
  return fill(to, &value, 1, 1, count);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  ENTER;
  (void)stream;
  return fill(to, &value, 2, 2, count);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  ENTER;
  (void)stream;
  return fill(to, &value, 4, 4, count);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream) {
  ENTER;
  (void)stream;
  return width == 1 ? fill(to, &value, 4, pitch, height) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamSynchronize(CUstream stream) {
  ENTER;
  (void)stream;
  return CUDA_SUCCESS;
}

/* A map holds what it was encoded from. */

struct words {
  unsigned char is_windows, type, rank, swizzle;
  unsigned box[5], steps[5];
  uint64_t address;
  uint64_t dims[5];
  int corners[3]; /* low - high is enough to tell one from another: low + 1000 * high */
};
_Static_assert(sizeof(struct words) <= sizeof(CUtensorMap), "a map holds its words");

static CUresult encode(CUtensorMap *map, struct words *words, cuuint32_t rank, const cuuint64_t *dims,
                       const cuuint64_t *strides, unsigned element) {
  uint64_t expected = element;
  if ((uintptr_t)map % 64 != 0 || words->address % 16 != 0 || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned n = 0; n < rank; ++n) words->dims[n] = dims[n];
  for (unsigned n = 0; n + 1 < rank; ++n) {
    expected *= dims[n];
    if (strides[n] != expected) return CUDA_ERROR_INVALID_VALUE;
  }
  memcpy(map, words, sizeof *words);
  return CUDA_SUCCESS;
}

static unsigned element_of(CUtensorMapDataType type) {
  return type == CU_TENSOR_MAP_DATA_TYPE_UINT8                                              ? 1
         : type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 2
                                                                                            : 4;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill_) {
  struct words words = {0, (unsigned char)type, (unsigned char)rank, (unsigned char)swizzle, {0}, {0},
                        (uintptr_t)address, {0}, {0}};
  ENTER;
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || fill_ != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
      promotion != CU_TENSOR_MAP_L2_PROMOTION_L2_128B)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(words.box, box, rank * sizeof *box);
  memcpy(words.steps, steps, rank * sizeof *steps);
  return encode(map, &words, rank, dims, strides, element_of(type));
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *dims, const cuuint64_t *strides, const int *low, const int *high,
                                 cuuint32_t channels, cuuint32_t windows, const cuuint32_t *steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill_) {
  struct words words = {1, (unsigned char)type, (unsigned char)rank, (unsigned char)swizzle, {channels, windows}, {0},
                        (uintptr_t)address, {0}, {0}};
  ENTER;
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || fill_ != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ||
      promotion != CU_TENSOR_MAP_L2_PROMOTION_L2_128B)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(words.steps, steps, rank * sizeof *steps);
  for (unsigned n = 0; n + 2 < rank; ++n) words.corners[n] = low[n] + 1000 * high[n];
  return encode(map, &words, rank, dims, strides, element_of(type));
}

static int print_map(char *room, const struct words *words) {
  int at = sprintf(room, "{\"windows\": %d, \"type\": %d, \"swizzle\": %d, \"address\": %llu, \"dims\": [",
                   words->is_windows, words->type, words->swizzle, (unsigned long long)words->address);
  for (int n = 0; n < words->rank; ++n) at += sprintf(room + at, "%s%llu", n ? ", " : "", (unsigned long long)words->dims[n]);
  at += sprintf(room + at, "], \"box\": [");
  for (int n = 0; n < (words->is_windows ? 2 : words->rank); ++n) at += sprintf(room + at, "%s%u", n ? ", " : "", words->box[n]);
  at += sprintf(room + at, "], \"steps\": [");
  for (int n = 0; n < words->rank; ++n) at += sprintf(room + at, "%s%u", n ? ", " : "", words->steps[n]);
  at += sprintf(room + at, "], \"corners\": [");
  for (int n = 0; n + 2 < words->rank; ++n) at += sprintf(room + at, "%s%d", n ? ", " : "", words->corners[n]);
  return at + sprintf(room + at, "]}");
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra) {
  char *room;
  int at, pushed;
  ENTER;
  pthread_mutex_lock(&mutex);
  pushed = context.pushed;
  pthread_mutex_unlock(&mutex);
  if (extra != NULL || config->numAttrs > 1 || pushed < 1) return CUDA_ERROR_INVALID_VALUE;
  if (config->sharedMemBytes > 48 << 10 && (int)config->sharedMemBytes > function->shared) return CUDA_ERROR_INVALID_VALUE;
  if (config->numAttrs && (config->attrs->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION ||
                           config->attrs->value.programmaticStreamSerializationAllowed != 1))
    return CUDA_ERROR_INVALID_VALUE;
  room = malloc(1024 + 1024 * strlen(function->parameters));
  at = sprintf(room, "{\"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u, \"early\": %u, "
               "\"stream\": %llu, \"arguments\": [",
               function->name, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
               config->blockDimZ, config->sharedMemBytes, config->numAttrs, (unsigned long long)(uintptr_t)config->hStream);
  for (int n = 0; function->parameters[n] != 0 && function->parameters[n] != '-'; ++n) {
    at += sprintf(room + at, n ? ", " : "");
    if (function->parameters[n] == 'm') {
      if ((uintptr_t)arguments[n] % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
      at += print_map(room + at, arguments[n]);
    } else if (function->parameters[n] == 'p') {
      at += sprintf(room + at, "[%llu]", *(CUdeviceptr *)arguments[n]);
    } else {
      at += sprintf(room + at, "%d", *(int *)arguments[n]);
    }
  }
  puts(strcat(room, "]}"));
  free(room);
  return CUDA_SUCCESS;
}

/* What is left when all was given back: nothing. */
int left_behind(void) { return living + context.held + context.pushed; }
