/* Stands before musl's <assert.h>, for C and C++.
 *
 * Meaning: where assertions are off, c10/macros/Macros.h declares __assert_fail as glibc does, with
 * an unsigned line and throw(). musl's <assert.h> declares it too, with an int and without, and the
 * two do not go together. Here musl's declaration gets another name, which nothing uses: what calls
 * __assert_fail has c10's. Both are the same function for the linker. */
#ifdef NDEBUG
#define __assert_fail lta_assert_fail_of_musl
#include_next <assert.h>
#undef __assert_fail
#else
#include_next <assert.h>
#endif
