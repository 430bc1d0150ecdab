#include "detail.h"
