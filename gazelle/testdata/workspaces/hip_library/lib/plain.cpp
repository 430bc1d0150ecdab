void go();
