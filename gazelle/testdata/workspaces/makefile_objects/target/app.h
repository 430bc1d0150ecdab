void fast();
void exact();
void also_fast();
void host();
