// Calls no __device__ function.
int host() { return 0; }
