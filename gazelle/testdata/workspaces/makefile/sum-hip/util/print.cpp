#include "print.h"
