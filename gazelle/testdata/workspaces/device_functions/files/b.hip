extern "C" __global__ void b() {}
