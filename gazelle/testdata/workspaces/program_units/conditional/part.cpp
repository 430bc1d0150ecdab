int part() { return 0; }

#ifdef TEST_OF_PART
int main() { return part(); }
#endif
