// Linked with the rest of its unit, called by nobody, and what it calls is not there.
int gone(int);
int never_called(int number) { return gone(number); }
