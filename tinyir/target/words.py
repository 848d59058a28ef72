"""The words by which the CTAs of a launch tell one another what they found, and the device functions for them. Rows of
`target.intrinsics`.

A word is 0 until it is published. One of 8 bytes carries a value of 4 in its upper half, so that value and word are one
access; a flag of 4 bytes belongs to a value elsewhere, which was written before it and is read behind it. Source: PTX
ISA, memory consistency model (relaxed, release, acquire at the scope of the GPU).
"""

LEVELS = 3  # of the tree of words (`ir.gpu.across`)
BRANCHES = 32  # words that one of the next level covers: as many as lanes look at once
WORDS_OF = {
    4: ("u64", False),
    8: ("u32", True),
}  # by the bytes of a value: the dtype of its words, and whether the value is kept apart

_INLINE = "__device__ __forceinline__ "

GUARDED = (
    (
        "load_once",
        f"""\
{_INLINE}uint4 load_once(const void *from) {{
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {{%0, %1, %2, %3}}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
  return x;
}}""",  # noqa: E501
    ),
    (
        "load_line",
        f"""\
{_INLINE}uint4 load_line(const void *from) {{
  uint4 x;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {{%0, %1, %2, %3}}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
  return x;
}}""",  # noqa: E501
    ),
    *(
        (
            f"load_{how}",
            f"""\
{_INLINE}uint4 load_{how}(const void *from) {{
  uint4 x;
  asm("ld.global.nc.L2::cache_hint.v4.u32 {{%0, %1, %2, %3}}, [%4], %5;" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from), "l"({policy}ull));
  return x;
}}""",  # noqa: E501
        )
        for how, policy in (("kept", "0x14f0000000000000"), ("last", "0x12f0000000000000"))  # evict last, and first
    ),
    (
        "store_words_last",
        f"""\
{_INLINE}void store_words_last(void *to, uint4 x) {{
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {{%1, %2, %3, %4}}, %5;" :: "l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "l"(0x12f0000000000000ull) : "memory");
}}""",  # noqa: E501
    ),
    (
        "publish_word",
        f"""\
{_INLINE}void publish_word(unsigned long long *word, unsigned int value) {{
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(word), "l"((unsigned long long)value << 32 | 1ull) : "memory");
}}""",  # noqa: E501
    ),
    (
        "await_word",
        f"""\
{_INLINE}unsigned int await_word(const unsigned long long *word) {{
  unsigned long long found;
  do asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(word) : "memory");
  while (!(found & 1ull));
  return (unsigned int)(found >> 32);
}}""",
    ),
    (
        "publish_flag",
        f"""\
{_INLINE}void publish_flag(unsigned int *flag) {{ asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(1u) : "memory"); }}""",  # noqa: E501
    ),
    (
        "await_flag",
        f"""\
{_INLINE}void await_flag(const unsigned int *flag) {{
  unsigned int found;
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(flag) : "memory");
  while (!found);
}}""",
    ),
)
