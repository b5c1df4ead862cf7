// Keeps registrations in apps that link the static library; see orchestrator/plan/anchors.py.
//
// -DLTA_ANCHOR=<name>: the unit registers something, and <name> is a symbol to refer to it by.
// -DLTA_KEEPS_ANCHORS: the unit refers to the one that refers to all anchors.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#ifdef LTA_ANCHOR
extern const char LTA_ANCHOR __attribute__((visibility("hidden")));
const char LTA_ANCHOR = 1;
#endif
#ifdef LTA_KEEPS_ANCHORS
extern const char *const lta_anchors[] __attribute__((visibility("hidden")));
__attribute__((used)) static const void *const lta_kept_anchors = lta_anchors;
#endif
#ifdef __cplusplus
}
#endif
