#include "scale.h"
int main() { hipFree(0); scale(); }
