/* GPT-2 without Python, word after word: gpt2 DATA LOGITS COUNT ID...
   Prints the ids that were given and the COUNT that the network puts after them, and leaves the last logits in a file.
   TOKENS and WORDS are the sizes of the program, whose weights are in DATA. */
#include "program.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call) \
  if ((call) != CUDA_SUCCESS) return fprintf(stderr, "%s\n", #call), 1

static int64_t ids[TOKENS];
static float logits[TOKENS * WORDS];

static int greatest(const float *row) {
  int best = 0;
  for (int word = 1; word < WORDS; ++word)
    if (row[word] > row[best]) best = word;
  return best;
}

static int continued(const gpt2_program *program, CUdeviceptr in, CUdeviceptr out, void *workspace, int known, int wanted) {
  while (known < wanted) {
    MUST(cuMemcpyHtoD(in, ids, sizeof ids));
    if (gpt2_run(program, (void *)(uintptr_t)in, (void *)(uintptr_t)out, workspace, NULL))
      return fprintf(stderr, "%s\n", gpt2_error()), 1;
    MUST(cuStreamSynchronize(NULL));
    MUST(cuMemcpyDtoH(logits, out, sizeof logits));
    ids[known] = greatest(logits + (known - 1) * WORDS);
    ++known;
  }
  return 0;
}

static int with_memory(const gpt2_program *program, int known, int wanted) {
  CUdeviceptr in = 0, out = 0, workspace = 0;
  size_t bytes = 0;
  int fault = gpt2_workspace_bytes(&bytes);
  if (fault) return fprintf(stderr, "%s\n", gpt2_error()), 1;
  fault = cuMemAlloc(&in, sizeof ids) || cuMemAlloc(&out, sizeof logits) || cuMemAlloc(&workspace, bytes + 1) ||
          cuMemsetD8Async(out, 0, sizeof logits, NULL) ||
          continued(program, in, out, (void *)(uintptr_t)workspace, known, wanted);
  if (workspace) cuMemFree(workspace);
  if (out) cuMemFree(out);
  if (in) cuMemFree(in);
  return fault;
}

int main(int count, char **words) {
  gpt2_program *program;
  CUcontext context, popped;
  CUdevice device;
  FILE *file;
  int known = count - 4, wanted, fault;
  if (known < 1 || (wanted = known + atoi(words[3])) > TOKENS) return fprintf(stderr, "gpt2 DATA LOGITS COUNT ID...\n"), 2;
  for (int n = 0; n < known; ++n) ids[n] = strtoll(words[4 + n], NULL, 10);
  if (gpt2_create(words[1], 0, &program)) return fprintf(stderr, "%s\n", gpt2_error()), 1;
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device)); /* the program's own, for what is allocated here */
  MUST(cuCtxPushCurrent(context));
  fault = with_memory(program, known, wanted);
  cuCtxPopCurrent(&popped);
  cuDevicePrimaryCtxRelease(device);
  gpt2_destroy(program);
  if (fault || (file = fopen(words[2], "wb")) == NULL) return 1;
  fault = fwrite(logits, sizeof logits, 1, file) != 1;
  fault |= fclose(file) != 0;
  for (int n = 0; n < wanted; ++n) printf("%lld%c", (long long)ids[n], n + 1 < wanted ? ' ' : '\n');
  return fault;
}
