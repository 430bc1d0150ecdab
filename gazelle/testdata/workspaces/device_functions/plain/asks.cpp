#ifdef __HIPCC__
__device__
#endif
int asks() { return 1; }
