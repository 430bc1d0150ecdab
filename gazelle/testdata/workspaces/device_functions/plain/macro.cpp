#define DEVICE __device__
int macro() { return 1; }
