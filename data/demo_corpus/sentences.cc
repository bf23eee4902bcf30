// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/sentences.h"

#include <initializer_list>
#include <utility>

#include "data/demo_corpus/lexicon.h"
#include "data/demo_corpus/phrases.h"

namespace ventris::data::demo {
namespace {

constexpr int kCardinalDigits = 9;
constexpr int kCountDigits = 5;
constexpr int kOrdinalDigits = 4;

/// A clause before its words are ordered. The adverb may be empty; so may the object.
struct Clause {
  std::string subject, german_subject;
  std::string predicate;        // English verb group
  std::string finite;           // German conjugated verb
  std::string end;              // the end of a main clause: infinitive or separable prefix, may be empty
  std::string end_subordinate;  // the end of a subordinate clause
  DemoPair object;
  DemoPair adverb;
};

std::string join(std::initializer_list<std::string> words) {
  std::string text;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

/// Capital first letter (all first letters are ASCII) and full stop.
DemoPair finish(DemoPair pair) {
  for (std::string* text : {&pair.english, &pair.german}) {
    char& first = text->front();
    if (first >= 'a' && first <= 'z') first = static_cast<char>(first - 'a' + 'A');
    *text += '.';
  }
  return pair;
}

std::string english_of(const Clause& c) {
  return join({c.subject, c.predicate, c.object.english, c.adverb.english});
}

std::string german_main(const Clause& c) {
  return join({c.german_subject, c.finite, c.adverb.german, c.object.german, c.end});
}

/// The verb stays second, so the subject moves behind it.
std::string german_inverted(const Clause& c, const std::string& first) {
  return join({first, c.finite, c.german_subject, c.adverb.german, c.object.german, c.end});
}

std::string german_subordinate(const Clause& c) {
  return join({c.german_subject, c.adverb.german, c.object.german, c.end_subordinate});
}

DemoPair counted(Random& random, int digits) {
  const Noun& noun = random.pick(kNouns);
  const int64_t n = random_count(random, digits);
  return {english_cardinal(n) + " " + noun.english_plural(), german_cardinal(n) + " " + noun.german_plural};
}

/// An accusative: counted things, one thing, an ordinal or an adjective with its noun.
DemoPair object(Random& random) {
  const int64_t kind = random.below(100);
  if (kind < 50) return counted(random, kCountDigits);
  const Noun& noun = random.pick(kNouns);
  if (kind < 60) return {"one " + noun.english, std::string(one_accusative(noun.gender)) + " " + noun.german};
  const std::string article = definite_accusative(noun.gender);
  const std::string ending = weak_accusative(noun.gender);
  if (kind < 75) {
    const int64_t n = random_number(random, 2);
    return {"the " + english_ordinal(n) + " " + noun.english,
            article + " " + german_ordinal(n) + ending + " " + noun.german};
  }
  if (kind < 92) {
    const DemoPair& adjective = random.pick(kAdjectives);
    return {"the " + adjective.english + " " + noun.english,
            article + " " + adjective.german + ending + " " + noun.german};
  }
  const DemoPair first = counted(random, 3);
  const DemoPair second = counted(random, 3);
  return {first.english + " and " + second.english, first.german + " und " + second.german};
}

DemoPair at_time(Random& random) {
  const DemoPair time = random_time(random);
  return {"at " + time.english, "um " + time.german};
}

DemoPair adverb(Random& random, Tense tense) {
  const int64_t kind = random.below(100);
  if (kind < 40) return random.pick(tense == Tense::kPast ? kPastDays : kPresentDays);
  if (kind < 60) return at_time(random);
  if (tense == Tense::kPast && kind < 75) {
    const DemoPair in = year(1100 + random.below(950));
    return {"in " + in.english, "im Jahr " + in.german};
  }
  return date_on(random);
}

Clause clause(const Subject& subject, const Verb& verb, Tense tense) {
  Clause c;
  c.subject = subject.english;
  c.german_subject = subject.german;
  const bool past = tense == Tense::kPast;
  c.predicate = past ? verb.english_past : subject.form == kThirdSingular ? verb.english_third : verb.english;
  c.finite = past ? verb.past(subject.form) : verb.present(subject.form);
  c.end = verb.prefix;
  c.end_subordinate = verb.prefix + c.finite;
  return c;
}

Clause modal_clause(const Subject& subject, const Modal& modal, const Verb& verb) {
  Clause c;
  c.subject = subject.english;
  c.german_subject = subject.german;
  c.predicate = (subject.form == kThirdSingular ? modal.english_third : modal.english) + " " + verb.english;
  c.finite = modal.german[subject.form];
  c.end = verb.infinitive();
  c.end_subordinate = c.end + " " + c.finite;
  return c;
}

/// "I am", "she is", "we are".
Clause being(const Subject& subject) {
  static const Verb kBe = {"are", "is", "was", "", "sind", "bin", "ist", "war"};
  Clause c = clause(subject, kBe, Tense::kPresent);
  if (subject.form == kFirstSingular) c.predicate = "am";
  return c;
}

/// A person does something to something.
Clause action(Random& random, Tense tense, bool with_adverb) {
  const Subject& subject = random.pick(kPeople);
  const Verb& verb = random.pick(kTransitive);
  const bool modal = tense == Tense::kPresent && random.chance(40);
  Clause c = modal ? modal_clause(subject, random.pick(kModals), verb) : clause(subject, verb, tense);
  c.object = object(random);
  if (with_adverb) c.adverb = adverb(random, tense);
  return c;
}

Tense random_tense(Random& random) {
  return random.chance(55) ? Tense::kPast : Tense::kPresent;
}

DemoPair main_sentence(Random& random) {
  const Tense tense = random_tense(random);
  Clause c = action(random, tense, true);
  if (random.chance(50)) return finish({english_of(c), german_main(c)});
  const DemoPair first = std::exchange(c.adverb, {});
  return finish({first.english + " " + english_of(c), german_inverted(c, first.german)});
}

// Compilers evaluate the arguments of a call in different orders: at most one of them draws random numbers,
// so that the corpus is the same with all.

DemoPair that_sentence(Random& random) {
  const Subject& subject = random.pick(kPeople);
  const Clause thinking = clause(subject, random.pick(kThinking), Tense::kPresent);
  const bool with_adverb = random.chance(60);
  const Clause c = action(random, random_tense(random), with_adverb);
  return finish({english_of(thinking) + " that " + english_of(c),
                 german_main(thinking) + ", dass " + german_subordinate(c)});
}

DemoPair because_sentence(Random& random) {
  const Subject& subject = random.pick(kPeople);
  Clause mood = being(subject);
  mood.object = random.pick(kMoods);
  const bool with_adverb = random.chance(50);
  const Clause c = action(random, random_tense(random), with_adverb);
  return finish({english_of(mood) + " because " + english_of(c),
                 german_main(mood) + ", weil " + german_subordinate(c)});
}

DemoPair if_sentence(Random& random) {
  const Verb& condition = random.pick(kTransitive);
  Clause first = clause(random.pick(kPeople), condition, Tense::kPresent);
  first.object = object(random);
  const Verb& verb = random.pick(kTransitive);
  const Modal& modal = random.pick(kModals);
  Clause second = modal_clause(random.pick(kPeople), modal, verb);
  second.object = object(random);
  return finish({"if " + english_of(first) + ", " + english_of(second),
                 "wenn " + german_subordinate(first) + ", " + german_inverted(second, "")});
}

/// Sentences around a clock time.
DemoPair time_sentence(Random& random) {
  const int64_t kind = random.below(100);
  if (kind < 15) {
    const DemoPair time = random_time(random);
    return random.chance(50) ? finish({"it is " + time.english, "es ist " + time.german})
                             : finish({"it was " + time.english, "es war " + time.german});
  }
  const bool vehicle = random.chance(50);
  const Subject& subject = random.pick(vehicle ? kVehicles : kPeople);
  const Verb& verb = random.pick(vehicle ? kTravel : kDaily);
  if (kind < 35) {
    const Clause c = clause(subject, verb, Tense::kPast);
    const DemoPair time = random_time(random);
    return finish({"when " + english_of(c) + ", it was " + time.english,
                   "als " + german_subordinate(c) + ", war es " + time.german});
  }
  const Tense tense = random_tense(random);
  Clause c = clause(subject, verb, tense);
  c.adverb = at_time(random);
  if (kind < 60) return finish({english_of(c), german_main(c)});
  const DemoPair& day = random.pick(tense == Tense::kPast ? kPastDays : kPresentDays);
  return finish({day.english + " " + english_of(c), german_inverted(c, day.german)});
}

DemoPair price_sentence(Random& random) {
  const DemoPair price = random_price(random);
  const Noun& noun = random.pick(kNouns);
  if (random.chance(50)) {
    const DemoPair& adjective = random.pick(kAdjectives);
    return finish({"the " + adjective.english + " " + noun.english + " costs " + price.english,
                   std::string(definite_nominative(noun.gender)) + " " + adjective.german + "e " +
                       noun.german + " kostet " + price.german});
  }
  static const Verb kPay = {"pay", "pays", "paid", "", "zahlen", "zahle", "zahlt", "zahlte"};
  const Tense tense = random_tense(random);
  Clause c = clause(random.pick(kPeople), kPay, tense);
  c.object = {price.english + " for the " + noun.english,
              price.german + " für " + definite_accusative(noun.gender) + " " + noun.german};
  return finish({english_of(c), german_main(c)});
}

DemoPair date_sentence(Random& random) {
  if (random.chance(45)) {
    const DemoPair date = date_nominative(random);
    return random.chance(50) ? finish({"today is " + date.english, "heute ist " + date.german})
                             : finish({"it was " + date.english, "es war " + date.german});
  }
  const Subject& subject = random.pick(kPeople);
  const bool plural = subject.form == kPlural;
  const DemoPair date = date_on(random);
  return finish({subject.english + (plural ? " were" : " was") + " born " + date.english,
                 subject.german + (plural ? " wurden " : " wurde ") + date.german + " geboren"});
}

/// Ages, places and things carried: the noun in the nominative, accusative and dative.
DemoPair small_sentence(Random& random) {
  const int64_t kind = random.below(3);
  if (kind == 0) {
    const DemoPair things = counted(random, kCountDigits);
    const DemoPair& place = random.pick(kPlaces);
    return finish({"there are " + things.english + " " + place.english,
                   "es gibt " + things.german + " " + place.german});
  }
  const Subject& subject = random.pick(kPeople);
  if (kind == 1) {
    const int64_t age = 2 + random.below(98);
    Clause c = being(subject);
    c.object = {english_cardinal(age) + " years old", german_cardinal(age) + " Jahre alt"};
    return finish({english_of(c), german_main(c)});
  }
  const Noun& noun = random.pick(kNouns);
  const int64_t n = random_count(random, 4);
  Clause c = clause(subject, kDaily[2], random_tense(random));
  c.object = {"with " + english_cardinal(n) + " " + noun.english_plural(),
              "mit " + german_cardinal(n) + " " + noun.dative_plural()};
  return finish({english_of(c), german_main(c)});
}

DemoPair ordinal_phrase(Random& random) {
  const Noun& noun = random.pick(kNouns);
  const int64_t n = random_number(random, kOrdinalDigits);
  return {"the " + english_ordinal(n) + " " + noun.english,
          std::string(definite_nominative(noun.gender)) + " " + german_ordinal(n) + "e " + noun.german};
}

/// The phrases of sentences, alone: "half past seven", "twelve euros", "on the third of May", "seven tables".
/// Only those whose translation does not depend on their position in a sentence.
DemoPair short_phrase(Random& random) {
  const int64_t kind = random.below(100);
  if (kind < 50) return random_time(random);
  if (kind < 65) return random_price(random);
  if (kind < 80) return date_on(random);
  return counted(random, kCountDigits);
}

}  // namespace

DemoPair sentence(Random& random) {
  const int64_t kind = random.below(100);
  if (kind < 12) {
    const int64_t n = random.chance(1) ? 0 : random_number(random, random.chance(50) ? 5 : kCardinalDigits);
    return {english_cardinal(n), german_cardinal(n)};
  }
  if (kind < 16) return short_phrase(random);
  if (kind < 22) return ordinal_phrase(random);
  if (kind < 34) return time_sentence(random);
  if (kind < 43) return price_sentence(random);
  if (kind < 53) return date_sentence(random);
  if (kind < 60) return small_sentence(random);
  if (kind < 80) return main_sentence(random);
  if (kind < 87) return that_sentence(random);
  if (kind < 94) return because_sentence(random);
  return if_sentence(random);
}

}  // namespace ventris::data::demo
