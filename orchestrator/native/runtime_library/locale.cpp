// libc++'s locale.cpp, from the toolchain's own sources, with what PyTorch's streams need: the
// facets for money and time are left out of the classic locale, which else pulls in all of them.
#include "narrow.h"

#include <locale>

namespace std {
inline namespace __1 {

#define LTA_ABSENT(name)                                       \
  template <class Char>                                        \
  struct name : locale::facet {                                \
    static locale::id id;                                      \
    explicit name(size_t references) : facet(references) {}    \
    explicit name(const string&) : facet(0) {}                 \
  };                                                           \
  template <class Char>                                        \
  locale::id name<Char>::id;

LTA_ABSENT(absent_money_get)
LTA_ABSENT(absent_money_put)
LTA_ABSENT(absent_time_get)
LTA_ABSENT(absent_time_put)
LTA_ABSENT(absent_time_get_byname)
LTA_ABSENT(absent_time_put_byname)

} // namespace __1
} // namespace std

#define money_get absent_money_get
#define money_put absent_money_put
#define time_get absent_time_get
#define time_put absent_time_put
#define time_get_byname absent_time_get_byname
#define time_put_byname absent_time_put_byname

#include <../src/locale.cpp>
