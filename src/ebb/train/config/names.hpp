// Enumerations as the words of a config: names_of<ModelKind>()[i] is that of the i-th.
#pragma once

#include <span>
#include <string>

#include "ebb/train/config/config.hpp"

namespace ebb::train {

using Words = std::span<const char* const>;

template <class E>
Words names_of();

template <>
Words names_of<ModelKind>();
template <>
Words names_of<Positions>();
template <>
Words names_of<LayerKind>();
template <>
Words names_of<Take>();
template <>
Words names_of<Activation>();
template <>
Words names_of<nn::TransformerOptions::Norm>();
template <>
Words names_of<nn::TransformerOptions::Gate>();
template <>
Words names_of<DataFormat>();
template <>
Words names_of<Task>();
template <>
Words names_of<MissingValues>();
template <>
Words names_of<OptimizerKind>();
template <>
Words names_of<ScheduleKind>();
template <>
Words names_of<LossKind>();
template <>
Words names_of<Precision>();
template <>
Words names_of<Mode>();
template <>
Words names_of<Allow>();  // without approximate, which is asked for by its kinds
template <>
Words names_of<StateForm>();

template <class E>
std::string name_of(E e) {
  return names_of<E>()[static_cast<std::size_t>(e)];
}

}  // namespace ebb::train
