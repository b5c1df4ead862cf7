// Gives lists, dictionaries and tuples the types that a method has for them. Part of capi.cpp.
//
// Meaning: a container that a host makes has the type of its items, and where it is empty, or all of
// them are None, that says nothing: the interpreter would refuse [] for a List[Tensor]. So what does
// not fit by its type is made anew if its items do. Its items are the caller's, the container is not:
// another method may have another type for it.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/dynamic_type.h>
#include <ATen/core/ivalue.h>

namespace lta {

inline bool fits(const c10::IValue& value, const c10::Type& type) {
  return value.type<c10::DynamicType>()->isSubtypeOf(type);
}

inline bool is_container(const c10::IValue& value) {
  return value.isList() || value.isGenericDict() || value.isTuple();
}

// Whether the value is of the type, after it was made anew where that takes it; else it stays as it is.
// The recursion is as deep as the value, which the API limits.
inline bool make_fit(c10::IValue& value, c10::Type& type) {
  using Tag = c10::DynamicType::Tag;
  if (fits(value, type)) {
    return true;
  }
  const auto wanted = c10::DynamicType::create(type);
  const Tag tag = wanted->tag();
  if (!is_container(value) || tag == Tag::Class) { // a class has no arguments
    return false;
  }
  const auto& parts = wanted->arguments().elems;
  if (tag == Tag::Optional) {
    return make_fit(value, *parts[0].ty);
  }
  if (tag == Tag::List && value.isList()) {
    c10::impl::GenericList made(parts[0].ty);
    for (c10::IValue item : value.toListRef()) {
      if (!make_fit(item, *parts[0].ty)) {
        return false;
      }
      made.push_back(std::move(item));
    }
    value = std::move(made);
    return true;
  }
  if (tag == Tag::Dict && value.isGenericDict()) {
    c10::impl::GenericDict made(parts[0].ty, parts[1].ty);
    for (const auto& entry : value.toGenericDict()) {
      c10::IValue item = entry.value();
      if (!fits(entry.key(), *parts[0].ty) || !make_fit(item, *parts[1].ty)) {
        return false;
      }
      made.insert(entry.key(), std::move(item));
    }
    value = std::move(made);
    return true;
  }
  if (tag == Tag::Tuple && value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    std::vector<c10::IValue> made(items.begin(), items.end());
    for (size_t i = 0; i < made.size(); ++i) {
      if (made.size() != parts.size() || !make_fit(made[i], *parts[i].ty)) {
        return false;
      }
    }
    const c10::IValue tuple = c10::ivalue::Tuple::create(std::move(made));
    if (!fits(tuple, type)) { // a named tuple's names are its type's too
      return false;
    }
    value = tuple;
    return true;
  }
  return false;
}

} // namespace lta
