#include "tile.h"
