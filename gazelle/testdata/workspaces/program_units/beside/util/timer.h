double now();
