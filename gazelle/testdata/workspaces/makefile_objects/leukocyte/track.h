int track(int n);
