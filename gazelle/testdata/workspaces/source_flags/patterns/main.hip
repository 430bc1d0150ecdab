int main() { hipFree(0); }
