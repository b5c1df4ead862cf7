#include <tuple>
std::tuple_element<2, std::tuple<int>>::type third;
