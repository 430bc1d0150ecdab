#include "app.h"

void host() {}
