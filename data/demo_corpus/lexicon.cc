// SPDX-License-Identifier: Apache-2.0
#include "data/demo_corpus/lexicon.h"

namespace ventris::data::demo {

using enum Gender;

std::string Noun::dative_plural() const {
  const char last = german_plural.back();
  return last == 'n' || last == 's' ? german_plural : german_plural + "n";
}

const std::vector<Subject> kPeople = {
    {"I", "ich", kFirstSingular},
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
    {"two friends", "zwei Freunde", kPlural},
};

const std::vector<Noun> kNouns = {
    {"book", "books", "Buch", "Bücher", kNeuter},
    {"house", "houses", "Haus", "Häuser", kNeuter},
    {"car", "cars", "Auto", "Autos", kNeuter},
    {"picture", "pictures", "Bild", "Bilder", kNeuter},
    {"egg", "eggs", "Ei", "Eier", kNeuter},
    {"bicycle", "bicycles", "Fahrrad", "Fahrräder", kNeuter},
    {"window", "windows", "Fenster", "Fenster", kNeuter},
    {"horse", "horses", "Pferd", "Pferde", kNeuter},
    {"shirt", "shirts", "Hemd", "Hemden", kNeuter},
    {"table", "tables", "Tisch", "Tische", kMasculine},
    {"chair", "chairs", "Stuhl", "Stühle", kMasculine},
    {"apple", "apples", "Apfel", "Äpfel", kMasculine},
    {"letter", "letters", "Brief", "Briefe", kMasculine},
    {"hat", "hats", "Hut", "Hüte", kMasculine},
    {"key", "keys", "Schlüssel", "Schlüssel", kMasculine},
    {"coat", "coats", "Mantel", "Mäntel", kMasculine},
    {"dog", "dogs", "Hund", "Hunde", kMasculine},
    {"shoe", "shoes", "Schuh", "Schuhe", kMasculine},
    {"lamp", "lamps", "Lampe", "Lampen", kFeminine},
    {"bottle", "bottles", "Flasche", "Flaschen", kFeminine},
    {"flower", "flowers", "Blume", "Blumen", kFeminine},
    {"ticket", "tickets", "Karte", "Karten", kFeminine},
    {"cup", "cups", "Tasse", "Tassen", kFeminine},
    {"newspaper", "newspapers", "Zeitung", "Zeitungen", kFeminine},
    {"cat", "cats", "Katze", "Katzen", kFeminine},
    {"bag", "bags", "Tasche", "Taschen", kFeminine},
};

const std::vector<DemoPair> kAdjectives = {{"red", "rot"},         {"old", "alt"},    {"new", "neu"},
                                           {"small", "klein"},     {"big", "groß"},   {"green", "grün"},
                                           {"beautiful", "schön"}, {"white", "weiß"}, {"black", "schwarz"}};

const std::vector<Verb> kTransitive = {
    {"buy", "buys", "bought", "kaufen", {"kaufe", "kauft", "kaufen"}, {"kaufte", "kaufte", "kauften"}, ""},
    {"sell",
     "sells",
     "sold",
     "verkaufen",
     {"verkaufe", "verkauft", "verkaufen"},
     {"verkaufte", "verkaufte", "verkauften"},
     ""},
    {"see", "sees", "saw", "sehen", {"sehe", "sieht", "sehen"}, {"sah", "sah", "sahen"}, ""},
    {"find", "finds", "found", "finden", {"finde", "findet", "finden"}, {"fand", "fand", "fanden"}, ""},
    {"need",
     "needs",
     "needed",
     "brauchen",
     {"brauche", "braucht", "brauchen"},
     {"brauchte", "brauchte", "brauchten"},
     ""},
    {"count",
     "counts",
     "counted",
     "zählen",
     {"zähle", "zählt", "zählen"},
     {"zählte", "zählte", "zählten"},
     ""},
    {"order",
     "orders",
     "ordered",
     "bestellen",
     {"bestelle", "bestellt", "bestellen"},
     {"bestellte", "bestellte", "bestellten"},
     ""},
    {"draw",
     "draws",
     "drew",
     "zeichnen",
     {"zeichne", "zeichnet", "zeichnen"},
     {"zeichnete", "zeichnete", "zeichneten"},
     ""},
    {"lose",
     "loses",
     "lost",
     "verlieren",
     {"verliere", "verliert", "verlieren"},
     {"verlor", "verlor", "verloren"},
     ""},
    {"pick up",
     "picks up",
     "picked up",
     "abholen",
     {"hole", "holt", "holen"},
     {"holte", "holte", "holten"},
     "ab"},
    {"bring back",
     "brings back",
     "brought back",
     "zurückbringen",
     {"bringe", "bringt", "bringen"},
     {"brachte", "brachte", "brachten"},
     "zurück"},
    {"give away",
     "gives away",
     "gave away",
     "weggeben",
     {"gebe", "gibt", "geben"},
     {"gab", "gab", "gaben"},
     "weg"},
};

const std::vector<Verb> kDaily = {
    {"get up",
     "gets up",
     "got up",
     "aufstehen",
     {"stehe", "steht", "stehen"},
     {"stand", "stand", "standen"},
     "auf"},
    {"wake up",
     "wakes up",
     "woke up",
     "aufwachen",
     {"wache", "wacht", "wachen"},
     {"wachte", "wachte", "wachten"},
     "auf"},
    {"come back",
     "comes back",
     "came back",
     "zurückkommen",
     {"komme", "kommt", "kommen"},
     {"kam", "kam", "kamen"},
     "zurück"},
    {"go out",
     "goes out",
     "went out",
     "ausgehen",
     {"gehe", "geht", "gehen"},
     {"ging", "ging", "gingen"},
     "aus"},
    {"work",
     "works",
     "worked",
     "arbeiten",
     {"arbeite", "arbeitet", "arbeiten"},
     {"arbeitete", "arbeitete", "arbeiteten"},
     ""},
};

const std::vector<Subject> kVehicles = {
    {"the train", "der Zug", kThirdSingular},   {"the bus", "der Bus", kThirdSingular},
    {"the ship", "das Schiff", kThirdSingular}, {"the trains", "die Züge", kPlural},
    {"the ships", "die Schiffe", kPlural},
};

const std::vector<Verb> kTravel = {
    {"arrive", "arrives", "arrived", "ankommen", {"komme", "kommt", "kommen"}, {"kam", "kam", "kamen"}, "an"},
    {"leave", "leaves", "left", "abfahren", {"fahre", "fährt", "fahren"}, {"fuhr", "fuhr", "fuhren"}, "ab"},
    {"come back",
     "comes back",
     "came back",
     "zurückkommen",
     {"komme", "kommt", "kommen"},
     {"kam", "kam", "kamen"},
     "zurück"},
};

const std::vector<Verb> kThinking = {
    {"say", "says", "said", "sagen", {"sage", "sagt", "sagen"}, {"sagte", "sagte", "sagten"}, ""},
    {"know", "knows", "knew", "wissen", {"weiß", "weiß", "wissen"}, {"wusste", "wusste", "wussten"}, ""},
    {"believe",
     "believes",
     "believed",
     "glauben",
     {"glaube", "glaubt", "glauben"},
     {"glaubte", "glaubte", "glaubten"},
     ""},
};

const std::vector<Modal> kModals = {
    {"must", "must", {"muss", "muss", "müssen"}},
    {"can", "can", {"kann", "kann", "können"}},
    {"want to", "wants to", {"will", "will", "wollen"}},
    {"will", "will", {"werde", "wird", "werden"}},
};

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
