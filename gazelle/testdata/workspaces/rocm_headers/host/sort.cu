#include <thrust/sort.h>
void sort(int *x) { hipFree(x); }
