const char *source = "__global__ void k() {}";
