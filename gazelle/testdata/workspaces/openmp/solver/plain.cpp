#include "solve.h"
int plain;
