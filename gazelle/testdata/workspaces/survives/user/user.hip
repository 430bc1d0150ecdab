#include "k/tool.h"
