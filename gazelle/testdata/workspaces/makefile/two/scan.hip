#include "scan.h"
int main() { hipFree(0); }
