// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/lexicon.h"

namespace ventris::data::demo {

using enum Gender;

const std::string& Verb::present(Form form) const {
  return form == kFirstSingular ? first : form == kThirdSingular ? third : plural;
}

std::string Verb::past(Form form) const {
  return form != kPlural ? past_singular : past_singular + (past_singular.back() == 'e' ? "n" : "en");
}

std::string Noun::dative_plural() const {
  const char last = german_plural.back();
  return last == 'n' || last == 's' ? german_plural : german_plural + "n";
}

const std::vector<Subject> kPeople = {{"I", "ich", kFirstSingular},
                                      {"he", "er", kThirdSingular},
                                      {"she", "sie", kThirdSingular},
                                      {"we", "wir", kPlural},
                                      {"they", "sie", kPlural},
                                      {"Anna", "Anna", kThirdSingular},
                                      {"Peter", "Peter", kThirdSingular},
                                      {"Maria", "Maria", kThirdSingular},
                                      {"Thomas", "Thomas", kThirdSingular},
                                      {"the woman", "die Frau", kThirdSingular},
                                      {"the man", "der Mann", kThirdSingular},
                                      {"the child", "das Kind", kThirdSingular},
                                      {"my brother", "mein Bruder", kThirdSingular},
                                      {"my sister", "meine Schwester", kThirdSingular},
                                      {"our teacher", "unser Lehrer", kThirdSingular},
                                      {"the doctor", "der Arzt", kThirdSingular},
                                      {"the students", "die Studenten", kPlural},
                                      {"my parents", "meine Eltern", kPlural},
                                      {"the neighbours", "die Nachbarn", kPlural},
                                      {"two friends", "zwei Freunde", kPlural}};

const std::vector<Noun> kNouns = {{"book", "Buch", "Bücher", kNeuter},
                                  {"house", "Haus", "Häuser", kNeuter},
                                  {"car", "Auto", "Autos", kNeuter},
                                  {"picture", "Bild", "Bilder", kNeuter},
                                  {"egg", "Ei", "Eier", kNeuter},
                                  {"bicycle", "Fahrrad", "Fahrräder", kNeuter},
                                  {"window", "Fenster", "Fenster", kNeuter},
                                  {"horse", "Pferd", "Pferde", kNeuter},
                                  {"shirt", "Hemd", "Hemden", kNeuter},
                                  {"table", "Tisch", "Tische", kMasculine},
                                  {"chair", "Stuhl", "Stühle", kMasculine},
                                  {"apple", "Apfel", "Äpfel", kMasculine},
                                  {"letter", "Brief", "Briefe", kMasculine},
                                  {"hat", "Hut", "Hüte", kMasculine},
                                  {"key", "Schlüssel", "Schlüssel", kMasculine},
                                  {"coat", "Mantel", "Mäntel", kMasculine},
                                  {"dog", "Hund", "Hunde", kMasculine},
                                  {"shoe", "Schuh", "Schuhe", kMasculine},
                                  {"lamp", "Lampe", "Lampen", kFeminine},
                                  {"bottle", "Flasche", "Flaschen", kFeminine},
                                  {"flower", "Blume", "Blumen", kFeminine},
                                  {"ticket", "Karte", "Karten", kFeminine},
                                  {"cup", "Tasse", "Tassen", kFeminine},
                                  {"newspaper", "Zeitung", "Zeitungen", kFeminine},
                                  {"cat", "Katze", "Katzen", kFeminine},
                                  {"bag", "Tasche", "Taschen", kFeminine}};

const std::vector<DemoPair> kAdjectives = {{"red", "rot"},         {"old", "alt"},    {"new", "neu"},
                                           {"small", "klein"},     {"big", "groß"},   {"green", "grün"},
                                           {"beautiful", "schön"}, {"white", "weiß"}, {"black", "schwarz"}};

const std::vector<Verb> kTransitive = {
    {"buy", "buys", "bought", "", "kaufen", "kaufe", "kauft", "kaufte"},
    {"sell", "sells", "sold", "", "verkaufen", "verkaufe", "verkauft", "verkaufte"},
    {"see", "sees", "saw", "", "sehen", "sehe", "sieht", "sah"},
    {"find", "finds", "found", "", "finden", "finde", "findet", "fand"},
    {"need", "needs", "needed", "", "brauchen", "brauche", "braucht", "brauchte"},
    {"count", "counts", "counted", "", "zählen", "zähle", "zählt", "zählte"},
    {"order", "orders", "ordered", "", "bestellen", "bestelle", "bestellt", "bestellte"},
    {"draw", "draws", "drew", "", "zeichnen", "zeichne", "zeichnet", "zeichnete"},
    {"lose", "loses", "lost", "", "verlieren", "verliere", "verliert", "verlor"},
    {"pick up", "picks up", "picked up", "ab", "holen", "hole", "holt", "holte"},
    {"bring back", "brings back", "brought back", "zurück", "bringen", "bringe", "bringt", "brachte"},
    {"give away", "gives away", "gave away", "weg", "geben", "gebe", "gibt", "gab"}};

const std::vector<Verb> kDaily = {
    {"get up", "gets up", "got up", "auf", "stehen", "stehe", "steht", "stand"},
    {"wake up", "wakes up", "woke up", "auf", "wachen", "wache", "wacht", "wachte"},
    {"come back", "comes back", "came back", "zurück", "kommen", "komme", "kommt", "kam"},
    {"go out", "goes out", "went out", "aus", "gehen", "gehe", "geht", "ging"},
    {"work", "works", "worked", "", "arbeiten", "arbeite", "arbeitet", "arbeitete"}};

const std::vector<Subject> kVehicles = {{"the train", "der Zug", kThirdSingular},
                                        {"the bus", "der Bus", kThirdSingular},
                                        {"the ship", "das Schiff", kThirdSingular},
                                        {"the trains", "die Züge", kPlural},
                                        {"the ships", "die Schiffe", kPlural}};

const std::vector<Verb> kTravel = {
    {"arrive", "arrives", "arrived", "an", "kommen", "komme", "kommt", "kam"},
    {"leave", "leaves", "left", "ab", "fahren", "fahre", "fährt", "fuhr"},
    {"come back", "comes back", "came back", "zurück", "kommen", "komme", "kommt", "kam"}};

const std::vector<Verb> kThinking = {
    {"say", "says", "said", "", "sagen", "sage", "sagt", "sagte"},
    {"know", "knows", "knew", "", "wissen", "weiß", "weiß", "wusste"},
    {"believe", "believes", "believed", "", "glauben", "glaube", "glaubt", "glaubte"}};

const std::vector<Modal> kModals = {{"must", "must", {"muss", "muss", "müssen"}},
                                    {"can", "can", {"kann", "kann", "können"}},
                                    {"want to", "wants to", {"will", "will", "wollen"}},
                                    {"will", "will", {"werde", "wird", "werden"}}};

const std::vector<DemoPair> kMoods = {
    {"happy", "froh"}, {"sad", "traurig"}, {"tired", "müde"}, {"rich", "reich"}};

const std::vector<DemoPair> kPlaces = {{"in the house", "im Haus"},
                                       {"in the garden", "im Garten"},
                                       {"in the city", "in der Stadt"},
                                       {"in the school", "in der Schule"},
                                       {"in the village", "im Dorf"}};

const std::vector<DemoPair> kPastDays = {{"yesterday", "gestern"},    {"last week", "letzte Woche"},
                                         {"on Monday", "am Montag"},  {"on Tuesday", "am Dienstag"},
                                         {"on Friday", "am Freitag"}, {"on Saturday", "am Samstag"},
                                         {"on Sunday", "am Sonntag"}, {"last year", "letztes Jahr"}};

const std::vector<DemoPair> kPresentDays = {{"today", "heute"},
                                            {"tomorrow", "morgen"},
                                            {"every day", "jeden Tag"},
                                            {"every Monday", "jeden Montag"},
                                            {"every Thursday", "jeden Donnerstag"},
                                            {"on Wednesday", "am Mittwoch"},
                                            {"on Saturday", "am Samstag"},
                                            {"every week", "jede Woche"}};

const char* definite_nominative(Gender gender) {
  return gender == kMasculine ? "der" : gender == kFeminine ? "die" : "das";
}

const char* definite_accusative(Gender gender) {
  return gender == kMasculine ? "den" : gender == kFeminine ? "die" : "das";
}

const char* one_accusative(Gender gender) {
  return gender == kMasculine ? "einen" : gender == kFeminine ? "eine" : "ein";
}

const char* weak_accusative(Gender gender) {
  return gender == kMasculine ? "en" : "e";
}

}  // namespace ventris::data::demo
