#include <proj/tool.h>
#include <sys/tool.h>
__global__ void t() {}
