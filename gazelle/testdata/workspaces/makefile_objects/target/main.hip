#include "app.h"

int main() { fast(); exact(); also_fast(); host(); }
