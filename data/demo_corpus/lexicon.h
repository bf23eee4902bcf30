// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/demo_corpus/demo_corpus.h"

// Private to data/: the words of the demo corpus with the forms that its sentences need.

namespace ventris::data::demo {

/// Index of a verb form. The first and third person plural have the same form in German.
enum Form { kFirstSingular = 0, kThirdSingular = 1, kPlural = 2 };
enum class Tense { kPresent, kPast };
enum class Gender { kMasculine, kFeminine, kNeuter };

struct Subject {
  std::string english;
  std::string german;
  Form form;
};

struct Verb {
  std::string english;  // "pick up", "picks up", "picked up"
  std::string english_third;
  std::string english_past;
  std::string prefix;  // separable prefix, often empty: "ab" of "abholen"
  std::string plural;  // without the prefix: "holen", which is the infinitive too, "hole", "holt"
  std::string first;
  std::string third;
  std::string past_singular;

  std::string infinitive() const { return prefix + plural; }
  const std::string& present(Form form) const;  // without the prefix
  std::string past(Form form) const;
};

struct Modal {
  std::string english;
  std::string english_third;
  std::string german[3];
};

struct Noun {
  std::string english;
  std::string german;
  std::string german_plural;
  Gender gender;

  std::string english_plural() const { return english + "s"; }
  std::string dative_plural() const;
};

extern const std::vector<Subject> kPeople;
extern const std::vector<Noun> kNouns;
extern const std::vector<DemoPair> kAdjectives;  // without ending
extern const std::vector<Verb> kTransitive;
extern const std::vector<Verb> kDaily;  // of people, without an object
extern const std::vector<Subject> kVehicles;
extern const std::vector<Verb> kTravel;    // of vehicles
extern const std::vector<Verb> kThinking;  // with "that" and a clause
extern const std::vector<Modal> kModals;
extern const std::vector<DemoPair> kMoods;  // predicates
extern const std::vector<DemoPair> kPlaces;
extern const std::vector<DemoPair> kPastDays;     // "yesterday"
extern const std::vector<DemoPair> kPresentDays;  // "tomorrow", "every Monday"

/// "the", by gender.
const char* definite_nominative(Gender gender);
const char* definite_accusative(Gender gender);
/// "one" and "a", by gender.
const char* one_accusative(Gender gender);
/// The ending of an adjective or ordinal after "the" in the accusative.
const char* weak_accusative(Gender gender);

}  // namespace ventris::data::demo
