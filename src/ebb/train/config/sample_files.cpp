#include "ebb/train/config/sample_files.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "ebb/base/rng.hpp"

namespace ebb::train {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  std::uint64_t below(std::uint64_t n) { return mix(mix(seed_) + ++drawn_) % n; }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(below(1 << 20)) / (1 << 20);
  }
  template <std::size_t N>
  const char* one(const std::array<const char*, N>& of) {
    return of[below(N)];
  }

 private:
  std::uint64_t seed_, drawn_ = 0;
};

constexpr std::array kPeople = {"miller", "baker",  "sailor", "farmer",
                                "weaver", "hunter", "doctor", "teacher"};
constexpr std::array kAnimals = {"fox", "owl", "goat", "hare", "crow", "bear", "mouse", "horse"};
constexpr std::array kKinds = {"old", "young", "clever", "tired", "hungry", "quiet"};
constexpr std::array kPlaces = {"by the river", "in the wood",   "on the hill",
                                "at the mill",  "near the gate", "under the bridge"};
constexpr std::array kThings = {"a loaf of bread", "a silver coin", "a warm coat",
                                "a basket of apples", "a lantern"};
constexpr std::array kDays = {"One morning", "One evening", "Late at night", "In the spring",
                              "On a cold day"};
constexpr std::array kThanks = {"thanked", "followed", "never forgot", "waited for"};

// What was asked for is what is given, by whom it was asked.
std::string tale(Dice& dice) {
  const char *person = dice.one(kPeople), *animal = dice.one(kAnimals);
  const char *thing = dice.one(kThings), *place = dice.one(kPlaces);
  std::string to = fmt::format("{} the {} {} met the {} {} {}. ", dice.one(kDays), dice.one(kKinds),
                               person, dice.one(kKinds), animal, place);
  to += fmt::format("\"Have you got {}?\" asked the {}. ", thing, animal);
  if (dice.below(2) == 0) {
    to += fmt::format("\"I have,\" said the {}, and gave {} to the {}. ", person, thing, animal);
    to += fmt::format("The {} {} the {} ever after.", animal, dice.one(kThanks), person);
  } else {
    to += fmt::format("\"I have not,\" said the {}, and went home. ", person);
    to += fmt::format("The {} stayed {} without {}.", animal, place, thing);
  }
  return to + "\n\n";
}

struct District {
  const char* name;
  double worth;
};
constexpr std::array<District, 5> kDistricts = {
    {{"centre", 1.45}, {"harbour", 1.2}, {"north", 1.0}, {"south", 0.9}, {"hills", 1.3}}};
constexpr std::array<District, 3> kHeatings = {{{"oil", -8}, {"gas", 0}, {"heat pump", 14}}};

}  // namespace

std::string tales(std::size_t bytes, std::uint64_t seed) {
  Dice dice(seed);
  std::string to;
  while (to.size() < bytes) to += tale(dice);
  return to;
}

std::string houses_csv(std::int64_t rows, std::uint64_t seed) {
  Dice dice(seed);
  std::string to = "area,rooms,age,distance,district,heating,price\n";
  for (std::int64_t i = 0; i < rows; ++i) {
    const double area = std::floor(dice.between(35, 220)), age = std::floor(dice.between(0, 100));
    const auto rooms = static_cast<int>(area / 32 + dice.between(0.5, 2.5));
    const double distance = dice.between(0.2, 25);
    const District& district = kDistricts[dice.below(kDistricts.size())];
    const District& heating = kHeatings[dice.below(kHeatings.size())];
    const double old = age > 70 ? 70 - age : -age;  // the oldest are sought after again
    const double noise = dice.between(-1, 1) + dice.between(-1, 1) + dice.between(-1, 1);
    const double price =
        (area * 2.1 + 6 * rooms + 0.8 * old) * district.worth / (1 + 0.02 * distance) +
        heating.worth + 9 * noise;
    to += fmt::format("{:.0f},{},{:.0f},{:.1f},{},{},{:.1f}\n", area, rooms, age, distance,
                      district.name, heating.name, price);
  }
  return to;
}

}  // namespace ebb::train
