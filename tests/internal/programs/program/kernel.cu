// CUDA without its headers.
__attribute__((device)) int triple(int x) { return 3 * x; }

extern "C" __attribute__((global)) void fill(int *p, int v) { p[__nvvm_read_ptx_sreg_tid_x()] = triple(v); }
