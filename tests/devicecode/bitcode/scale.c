#include "functions.h"

int scale(int x) { return FACTOR * x + 1; }
int unused(int x) { return unknown(x); }
