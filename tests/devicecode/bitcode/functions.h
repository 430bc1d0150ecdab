// Functions of the bitcode library, for C.
int scale(int x);
int unknown(int x); // which is nowhere
