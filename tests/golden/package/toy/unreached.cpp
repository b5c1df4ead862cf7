// Nothing refers to it: linking by need must leave it out.
const char* unreached() { return "this text must not be in an app"; }
