/* A stand-in for the C API: two functions. */
#ifndef LIBTORCH_APP_H
#define LIBTORCH_APP_H
#define LTA_API __attribute__((visibility("default")))
#ifdef __cplusplus
extern "C" {
#endif
LTA_API int lta_add(int left, int right);
LTA_API const char *lta_version(void);
#ifdef __cplusplus
}
#endif
#endif
