#include "linked/walk.h"

#include "linked/steps.h"

int reset();

int walk(int *out) { return reset() + step(out); }
