// What tools/check_readers gives to the `safetensors` package of Python: every dtype, names of all kinds.
#include <type_traits>

#include "tests/train/checkpoint/training.hpp"

namespace ebb::train {
namespace {

template <class T>
Variable counted(const std::string& name, const Shape& shape) {
  std::vector<T> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(i % 100);
    if constexpr (std::is_same_v<T, bf16>)
      values[i] = to_bf16(value);
    else if constexpr (std::is_same_v<T, f16>)
      values[i] = to_f16(value);
    else
      values[i] = static_cast<T>(value);
  }
  return Variable(name, Tensor::from(values, shape));
}

class ForOthers : public test::FolderTest {};

TEST_F(ForOthers, EveryDType) {
  const char* asked = std::getenv("EBB_CHECKPOINT_FOR_OTHERS");
  const std::string path = asked ? asked : folder_ + "/run";
  std::vector<Variable> all{counted<float>("f32", {3, 5}),
                            counted<double>("f64", {2, 2, 2}),
                            counted<bf16>("bf16", {7}),
                            counted<f16>("f16", {7}),
                            counted<std::int32_t>("i32", {}),
                            counted<std::int64_t>("a \"quoted\" näme", {4}),
                            counted<std::uint8_t>("u8", {1000}),
                            counted<float>("empty", {0, 4}),
                            Variable("bool", Tensor::zeros({3}, DType::boolean))};
  train::save(path, {.step = 5, .extra = {{"config", "lr = 1"}}}, all);
  const auto before = test::bytes(all);
  for (Variable& v : all) v.write(std::vector<std::byte>(v.spec().bytes()), 0);
  train::load(path, all);
  EXPECT_EQ(test::bytes(all), before);
}

}  // namespace
}  // namespace ebb::train
