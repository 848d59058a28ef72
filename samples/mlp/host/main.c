/* Run mlp on zeros: main mlp.data ROWS */
#include "mlp.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static CUdeviceptr zeros(size_t bytes) {
  CUdeviceptr room = 0;
  if (cuMemAlloc(&room, bytes) != CUDA_SUCCESS || cuMemsetD8Async(room, 0, bytes, NULL) != CUDA_SUCCESS) {
    fprintf(stderr, "no room for %zu bytes\n", bytes);
    exit(1);
  }
  return room;
}

#define AT(room) ((void *)(uintptr_t)(room))

int main(int count, char **words) {
  const int64_t rows = count > 2 ? strtoll(words[2], NULL, 10) : 2048;
  mlp_program *program;
  CUcontext context, popped;
  CUdevice device;
  size_t bytes = 0;
  int fault = mlp_create(count > 1 ? words[1] : "mlp.data", 0, &program);
  if (!fault) fault = mlp_workspace_bytes(rows, &bytes);
  if (!fault && cuDeviceGet(&device, 0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
      cuCtxPushCurrent(context) == CUDA_SUCCESS) { /* the program's own context, for what is allocated here */
    const CUdeviceptr x = zeros((size_t)rows * 768 * 2), y = zeros((size_t)rows * 768 * 2), workspace = zeros(bytes);
    const CUdeviceptr w1 = zeros(768 * 3072 * 2), b1 = zeros(3072 * 2), w2 = zeros(3072 * 768 * 2), b2 = zeros(768 * 2);
    fault = mlp_run(program, AT(x), AT(w1), AT(b1), AT(w2), AT(b2), AT(y), rows, AT(workspace), NULL);
    if (!fault) fault = cuStreamSynchronize(NULL);
    cuMemFree(x), cuMemFree(y), cuMemFree(workspace), cuMemFree(w1), cuMemFree(b1), cuMemFree(w2), cuMemFree(b2);
    cuCtxPopCurrent(&popped);
    cuDevicePrimaryCtxRelease(device);
  }
  if (fault) fprintf(stderr, "%s\n", mlp_error());
  else printf("%lld rows\n", (long long)rows);
  mlp_destroy(program);
  return fault != 0;
}
