__global__ void old(int *x) {}
int main() {}
